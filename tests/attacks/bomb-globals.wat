;; attack: more mutable globals than an image should name
;; expect: admission refused: mutable globals
;; generate: globals count=70000
