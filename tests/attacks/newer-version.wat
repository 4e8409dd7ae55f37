;; attack: says that it is of a version yet to come
;; expect: admission refused: not a valid component
;; generate: newer-version
