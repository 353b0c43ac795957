"""Tables on the screen: columns, filters, export, and shortened trees."""
