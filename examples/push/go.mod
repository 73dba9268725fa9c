module example.org/push

go 1.26.8

require fanfare v0.0.0

replace fanfare => ../../

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/oklog/ulid/v2 v2.1.2 // indirect
)
