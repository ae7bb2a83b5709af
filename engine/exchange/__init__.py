"""Exchanges: how workers' contributions meet, with tensors and connections (`engine/axes/exchange.py`)."""
