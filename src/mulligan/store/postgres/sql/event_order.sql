seq
