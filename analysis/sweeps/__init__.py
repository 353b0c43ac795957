"""Many runs that differ in a few options: their points, comparisons and scaling."""
