"""The version of PopTorch whose behaviour this package shows; files carry it."""

VERSION = "3.3.0"
