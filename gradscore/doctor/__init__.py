"""Whether a run can be trusted, before its hours are spent: one small check each for rows, tokens, gradients and cost."""
