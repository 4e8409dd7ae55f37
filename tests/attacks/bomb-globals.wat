;; attack: more globals than an image should name
;; expect: admission refused: globals is 70000
;; generate: globals count=70000
