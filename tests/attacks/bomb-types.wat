;; attack: 200,000 types
;; expect: admission refused: types is 200000
;; generate: types count=200000
