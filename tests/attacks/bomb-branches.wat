;; attack: few levels, but without number
;; expect: admission refused: blocks and branches
;; generate: nesting depth=30 functions=20000
