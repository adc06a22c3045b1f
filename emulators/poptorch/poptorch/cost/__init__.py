"""How long a program takes on a machine: modelled, from its operations and the machine's facts."""
