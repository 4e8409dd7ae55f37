;; attack: a hundred instances with a memory each
;; expect: admission refused: can't be born
;; generate: memories count=100 pages=1
