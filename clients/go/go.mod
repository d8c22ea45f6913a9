module github.com/ration/ration/clients/go

go 1.19
