;; attack: a jump table of 500,000 targets
;; expect: admission refused: can't be compiled
;; generate: br-table functions=1 depth=1000 targets=500000
