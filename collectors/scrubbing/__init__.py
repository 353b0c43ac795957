"""Makes copies of recordings that can be shared: removes names of people, machines and places, keeps all numbers."""
