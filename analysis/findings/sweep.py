"""Many runs that differ in an option: what scales, what does not, what is noise."""
