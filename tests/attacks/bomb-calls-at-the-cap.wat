;; attack: calls of as many results as may be
;; expect: replied done
;; generate: calls results=16 count=500000
