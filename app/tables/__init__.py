"""Tables on the screen: columns, filters, export, and trees that are made short."""
