"""The promises of the tree and of a node, cheapest first: tidy, unit, then what needs a database, a node or Node.js."""
