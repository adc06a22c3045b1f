"""The exercises of every lab, one module a lab, named by the lab's permanent id."""
