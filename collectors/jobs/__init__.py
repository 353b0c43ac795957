"""Jobs of many ranks: what each rank reported, and runs that several machines write together."""
