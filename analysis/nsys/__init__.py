"""NVIDIA's report tables, as `nsys stats` prints them."""
