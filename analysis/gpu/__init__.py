"""What the GPUs did and when: activities, steps, busy and idle time."""
