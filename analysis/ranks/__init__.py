"""Many ranks as one job: a small summary of each rank's recording, and what all of them say together."""
