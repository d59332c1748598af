"""What commands print for people: images, skills, the store."""
