;; attack: half as many calls as may be, in one function, with all their results
;; expect: replied done
;; generate: calls results=4 count=100000
