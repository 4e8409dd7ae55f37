;; attack: a thousand modules
;; expect: admission refused: the number of modules
;; generate: modules count=999
