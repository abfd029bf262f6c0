"""`friday map`: one task for each of many items, under one cost cap."""
