module example.org/recipes

go 1.26.8

require fanfare v0.0.0

replace fanfare => ../../
