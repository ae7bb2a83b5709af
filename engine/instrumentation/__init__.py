"""Instrumentation: who reads or writes a parameter, compares its class or calls a module is noticed, without a hook."""
