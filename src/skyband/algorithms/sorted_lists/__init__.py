"""`tsl`: one sorted list an attribute, and the threshold algorithm over them."""
