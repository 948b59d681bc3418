"""Double of RoboCasa 1.0."""

print("WARNING: mimicgen environments not imported since mimicgen is not installed!")
