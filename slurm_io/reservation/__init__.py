"""Spare nodes of a reservation: what they hold, how they take over, who watches them."""
