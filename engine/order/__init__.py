"""Order: when a unit leaves and in what rank (`engine/axes/order.py`)."""
