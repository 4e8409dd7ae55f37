;; attack: 50,000 locals
;; expect: admission refused: a function's locals
;; generate: locals count=50000 functions=1
