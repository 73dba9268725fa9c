// Package schema is the data model: the key of every item (keys.go), what an item
// holds (items.go) and the design for NoSQL Workbench (workbench.go). Both storage
// backends store these items without knowing them.
//
// It must never read or write the table, and never decide what a feed does. A change
// here is a change of the stored format: data written before must still be read.
package schema
