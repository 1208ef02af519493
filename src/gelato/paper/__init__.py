"""The paper's experiments as data, run and recorded by command."""
