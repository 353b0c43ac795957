"""`tracetui reference`: what can be looked up about the program, a command each."""
