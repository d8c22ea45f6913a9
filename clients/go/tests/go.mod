module github.com/ration/ration/clients/go/tests

go 1.19

require (
	github.com/ration/ration/clients/go v0.1.0
	github.com/ration/ration/clients/go/rationgrpc v0.1.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240318140521-94a12d6c2237
	google.golang.org/grpc v1.64.1
	gopkg.in/yaml.v3 v3.0.1
)

require (
	golang.org/x/net v0.26.0 // indirect
	golang.org/x/sys v0.21.0 // indirect
	golang.org/x/text v0.16.0 // indirect
	google.golang.org/protobuf v1.33.0 // indirect
)

replace github.com/ration/ration/clients/go => ../

replace github.com/ration/ration/clients/go/rationgrpc => ../rationgrpc
