// Package schema is the data model: the key of every item (keys.go), the attributes of every item
// (items.go, and a file for each kind of partition) and the design for NoSQL Workbench (workbench.go).
// Both storage backends store these items and need not understand them.
//
// Package schema must never read or write the table, nor make a decision of the feed. A change in this
// package changes the stored format: data that an older version wrote must stay readable.
package schema
