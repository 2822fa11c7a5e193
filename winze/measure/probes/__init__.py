"""What a linear reader and a sample's neighbours know of its class."""
