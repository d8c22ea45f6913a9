module github.com/ration/ration/clients/go/bench

go 1.19

require github.com/ration/ration/clients/go v0.1.0

replace github.com/ration/ration/clients/go => ../
