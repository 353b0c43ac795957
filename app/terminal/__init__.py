"""What reaches the terminal: pictures as cells, and the few bytes that lead from one to the next."""
