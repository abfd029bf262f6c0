"""`friday map`: one task for each of many items, under one cap of cost."""
