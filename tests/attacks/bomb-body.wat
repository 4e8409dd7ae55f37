;; attack: one function of 2 MiB
;; expect: admission refused: a function's size in bytes
;; generate: body bytes=2097152
