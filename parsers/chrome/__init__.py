"""Chrome traces: Kineto's from 2020 to 2026, and whatever else keeps to the Trace Event format."""
