;; attack: more instances than an agent may have
;; expect: admission refused: can't be born
;; generate: instances levels=1 fan=500
