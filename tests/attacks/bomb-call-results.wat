;; attack: calls of a thousand results each, in two bytes
;; expect: admission refused: a function's results
;; generate: calls results=1000 count=100
