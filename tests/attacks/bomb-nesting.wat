;; attack: blocks 20,000 deep
;; expect: admission refused: blocks inside blocks
;; generate: nesting depth=20000 functions=1
