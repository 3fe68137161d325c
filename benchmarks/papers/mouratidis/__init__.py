"""Mouratidis, Bakiras and Papadias (SIGMOD 2006): tsl, tma and sma."""
