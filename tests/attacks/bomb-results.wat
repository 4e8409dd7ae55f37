;; attack: a jump table that carries 1,000 values to each of 1,000,000 targets
;; expect: admission refused: a function's results
;; generate: results arity=1000 targets=1000000
