;; attack: few bytes that declare locals without number
;; expect: admission refused: locals of all functions
;; generate: locals count=20000 functions=1000
