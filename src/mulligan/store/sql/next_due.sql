SELECT {{first_due}} AS due, {{clock}} AS now
