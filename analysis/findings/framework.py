"""What the framework was made to do: types, fusion, attention, optimizer, layout."""
